CREATE TABLE product (
  product_code VARCHAR(32)  CHARACTER SET utf8mb4 NOT NULL COMMENT 'natural key: what the shops send',
  product_key  BIGINT       NOT NULL COMMENT 'surrogate key: what the warehouse keeps',
  name         VARCHAR(120) NOT NULL,
  category     VARCHAR(40)  NOT NULL,
  brand        VARCHAR(40)  NOT NULL,
  updated_at   TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (product_code)
) ENGINE = InnoDB
