CREATE TABLE store (
  store_code VARCHAR(32)  CHARACTER SET utf8mb4 NOT NULL COMMENT 'natural key: what the shops send',
  store_key  BIGINT       NOT NULL COMMENT 'surrogate key: what the warehouse keeps',
  name       VARCHAR(120) NOT NULL,
  city       VARCHAR(80)  NOT NULL,
  region     VARCHAR(40)  NOT NULL,
  updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (store_code)
) ENGINE = InnoDB
