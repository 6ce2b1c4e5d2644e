package postgres

// Acquired is how many connections are in use.
func (db *DB) Acquired() int32 { return db.pool.Stat().AcquiredConns() }
