-- What operators have decided, by a command or on a page. A decision that changes this database has
-- its row in the transaction of the change. IF NOT EXISTS: the table may be older than the others,
-- because a service without an outbox can have it alone.
CREATE TABLE IF NOT EXISTS operator_decisions (
  id          uuid PRIMARY KEY, -- of UUID version 7
  decision    uuid NOT NULL, -- a large decision is done in batches, and has a row for each
  at          timestamptz NOT NULL DEFAULT now(),
  operator    text NOT NULL CHECK (octet_length(operator) BETWEEN 1 AND 200),
  via         text NOT NULL CHECK (via IN ('cli', 'page')),
  action      text NOT NULL CHECK (action IN ('replay', 'discard', 'republish', 'pause', 'resume')),
  filter      text NOT NULL CHECK (octet_length(filter) BETWEEN 1 AND 4096), -- what the operator chose, in words
  items       text[] NOT NULL CHECK (cardinality(items) > 0), -- the ids
  chosen      int NOT NULL GENERATED ALWAYS AS (cardinality(items)) STORED, -- lists need not read the ids
  -- A message at the destination is not in this database. So a row about messages is committed
  -- before the first one is touched, and these two are written afterwards. Without them, at most the
  -- items were changed.
  finished_at timestamptz,
  done        int CHECK (done BETWEEN 0 AND chosen),
  CHECK ((finished_at IS NULL) = (done IS NULL))
);

-- For pruning, for one decision, and for the decisions about one item. Decisions are rare, so each
-- insert writes the whole index, and no search has to read a list of what is not indexed yet.
CREATE INDEX IF NOT EXISTS operator_decisions_age ON operator_decisions (at);
CREATE INDEX IF NOT EXISTS operator_decisions_decision ON operator_decisions (decision, id);
CREATE INDEX IF NOT EXISTS operator_decisions_items ON operator_decisions USING gin (items) WITH (fastupdate = off);
