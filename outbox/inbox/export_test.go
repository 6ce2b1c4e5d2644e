package inbox

import "context"

// The statements, for their plans.
const (
	BeginPruneSQL = "BEGIN;" + planSQL
	PruneSQL      = pruneSQL
)

// Prune is prune.
func (i *Inbox[M]) Prune(ctx context.Context, limit int) (int, error) { return i.prune(ctx, limit) }
