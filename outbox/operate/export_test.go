package operate

// SetPageSize makes the pages of a republication small.
func SetPageSize(r *Republication, events int) { r.pageSize = events }
