CREATE TABLE customer (
  customer_number BIGINT       NOT NULL COMMENT 'natural key: what the shops send',
  customer_key    BIGINT       NOT NULL COMMENT 'surrogate key: what the warehouse keeps',
  name            VARCHAR(120) CHARACTER SET utf8mb4 NOT NULL,
  segment         VARCHAR(40)  NOT NULL,
  country         CHAR(2)      NOT NULL,
  updated_at      TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (customer_number)
) ENGINE = InnoDB
