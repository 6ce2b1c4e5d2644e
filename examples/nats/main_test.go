package main

import (
	"log"
	"os"
	"testing"

	"example.com/transactional-outbox/examples/nats/natstest"
)

func TestMain(m *testing.M) {
	code, err := natstest.RunTests(m)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}
