package main

import (
	"context"
	"errors"
	"fmt"
)

// refuseOrdersSQL makes the messages about some orders fail by themselves: the database still takes
// a row of the inbox. The sequence counts the failures, because a rollback does not undo nextval.
const refuseOrdersSQL = `
CREATE SEQUENCE orders_refused;
CREATE FUNCTION refuse_order() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  IF hashtext(NEW.order_id::text) %% %d = 0 AND nextval('orders_refused') <= %d THEN
    RAISE EXCEPTION 'the suite refuses this order';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse_order BEFORE INSERT OR UPDATE ON order_progress FOR EACH ROW EXECUTE FUNCTION refuse_order()`

const noLimit = 1 << 30

// refuseOrders makes messages about one of several orders fail, as often as the limit says. A
// message that fails with its batch fails twice. mend ends it, and returns the number of failures.
func (sys *system) refuseOrders(ctx context.Context, oneOf, limit int) (mend func() (int, error), err error) {
	err = sys.execute(ctx, notificationDatabase, fmt.Sprintf(refuseOrdersSQL, oneOf, limit))
	return func() (int, error) {
		ctx := context.WithoutCancel(ctx)
		n, err := sys.refusals(ctx)
		return min(n, limit), errors.Join(err, sys.execute(ctx, notificationDatabase, "DROP FUNCTION refuse_order CASCADE", "DROP SEQUENCE orders_refused"))
	}, err
}

// refusals counts the failures so far.
func (sys *system) refusals(ctx context.Context) (n int, err error) {
	err = sys.notificationDB.QueryRow(ctx, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM orders_refused").Scan(&n)
	return n, err
}

// refusingOrders refuses one of several orders while do runs, and counts the failures as faults.
func (sys *system) refusingOrders(ctx context.Context, oneOf int, do func() error) error {
	mend, err := sys.refuseOrders(ctx, oneOf, noLimit)
	if err != nil {
		return err
	}
	err = do()
	n, mendErr := mend()
	sys.injected += n
	return errors.Join(err, mendErr)
}
