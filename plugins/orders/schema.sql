-- Money is a whole number of cents, everywhere.
CREATE TABLE product (
  id           TEXT PRIMARY KEY,
  sku          TEXT NOT NULL UNIQUE,
  name         TEXT NOT NULL CHECK (length(name) > 0),
  price_cents  INTEGER NOT NULL CHECK (price_cents >= 0 AND price_cents <= 100000000000),
  on_hand      INTEGER NOT NULL DEFAULT 0 CHECK (on_hand >= 0 AND on_hand <= 1000000000),
  created_at   TIMESTAMP NOT NULL,
  updated_at   TIMESTAMP NOT NULL
);

CREATE TABLE customer_order (
  id            TEXT PRIMARY KEY,
  -- The caller's own number for it.
  order_number  TEXT NOT NULL UNIQUE,
  customer      TEXT NOT NULL,
  -- open, then paid or cancelled; never back.
  status        TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'paid', 'cancelled')),
  total_cents   INTEGER NOT NULL DEFAULT 0 CHECK (total_cents >= 0 AND total_cents <= 9007199254740991),
  ship_to       JSON,
  paid_at       TIMESTAMP,
  -- What a payment service is asked for, while it is: until the answer is known the order takes no changes.
  charging_cents INTEGER CHECK (charging_cents >= 0),
  created_at    TIMESTAMP NOT NULL,
  updated_at    TIMESTAMP NOT NULL,
  CHECK (status <> 'paid' OR paid_at IS NOT NULL)
);

CREATE INDEX customer_order_by_customer ON customer_order (customer, created_at);
CREATE INDEX customer_order_by_status ON customer_order (status, created_at);
CREATE INDEX customer_order_by_time ON customer_order (created_at);

-- One line for each product of an order, at the price of the day it was added.
CREATE TABLE order_line (
  id           TEXT PRIMARY KEY,
  order_id     TEXT NOT NULL REFERENCES customer_order (id),
  sku          TEXT NOT NULL REFERENCES product (sku),
  quantity     INTEGER NOT NULL CHECK (quantity > 0),
  price_cents  INTEGER NOT NULL CHECK (price_cents >= 0),
  UNIQUE (order_id, sku)
);
