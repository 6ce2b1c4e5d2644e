// Package handling lets a consumer find the inbox that handles its messages, however it is wrapped:
// it asks the inbox whether its database works, and lets it delete what is old.
package handling

import "context"

type key struct{}

// With returns a context for a call of a handler. found is called with each inbox that it reaches,
// each time.
func With(ctx context.Context, found func(inbox any)) context.Context {
	return context.WithValue(ctx, key{}, found)
}

// Found tells the consumer which inbox handles its messages.
func Found(ctx context.Context, inbox any) {
	if found, ok := ctx.Value(key{}).(func(any)); ok {
		found(inbox)
	}
}
