-- +goose Up
CREATE TABLE products (
  id         text PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
  name       text NOT NULL,
  unit_price bigint NOT NULL CHECK (unit_price > 0), -- minor units: pence, cents
  currency   text NOT NULL CHECK (currency ~ '^[A-Z]{3}$')
);

INSERT INTO products (id, name, unit_price, currency) VALUES
  ('sku123', 'Ceramic mug', 2999, 'GBP'),
  ('sku124', 'Linen tea towel', 1250, 'GBP'),
  ('sku125', 'Walnut tray', 6400, 'GBP');

CREATE TABLE orders (
  id             uuid PRIMARY KEY,
  version        int NOT NULL CHECK (version > 0), -- the aggregate_version of the newest event
  customer_id    uuid NOT NULL,
  customer_email text NOT NULL CHECK (octet_length(customer_email) <= 254), -- empty: a guest without one
  product_id     text NOT NULL REFERENCES products (id),
  quantity       int NOT NULL CHECK (quantity BETWEEN 1 AND 10000),
  amount         bigint NOT NULL CHECK (amount > 0), -- minor units, the price at the time of the order
  currency       text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  status         text NOT NULL CHECK (status IN ('pending', 'confirmed', 'cancelled')),
  created_at     timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE orders;
DROP TABLE products;
