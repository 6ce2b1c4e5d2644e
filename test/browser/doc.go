// Package browser tests the pages of both services in a real browser. Its tests start the services
// as processes, on servers of their own.
package browser
