package audit

// The statements, for tests of their plans.
const (
	ListSQL    = listSQL
	GetSQL     = getSQL
	BatchesSQL = batchesSQL
	OfSQL      = ofSQL
	PruneSQL   = pruneSQL
)
