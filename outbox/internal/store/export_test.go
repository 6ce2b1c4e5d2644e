package store

import (
	"context"

	_ "pgregory.net/rapid" // has the flag that race_test.go sets: it must be there before
)

// What the tests of package store_test need.
const (
	StrandedSQL      = strandedSQL
	HaltedForEverSQL = haltedForEverSQL
)

// IsFirstSeed reports whether the random tests choose as they do by default.
func IsFirstSeed() bool { return seed() == firstSeed }

// ReadAll makes the next claim a full read.
func (s *Store) ReadAll() { s.floor.again() }

// DeleteAll deletes what is done.
func (s *Store) DeleteAll(ctx context.Context) error {
	_, err := s.deleteOld(ctx, 0, place{})
	return err
}

// Forget makes the next claim a full read with all steps, as the first one is.
func (s *Store) Forget() { fixture{store: s}.reset() }
