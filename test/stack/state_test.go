package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/servers/process"
)

func TestStateIsReadAsItWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	want := newState()
	want.Services["order-service"] = process.ID{PID: 42, Started: "yesterday"}
	want.Databases["order-service"] = "postgres://user:secret@host/order_service"
	want.Private["RabbitMQ"] = "/somewhere"
	must(t, want.write(file))

	got, err := readState(file)
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	info, err := os.Stat(file)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file with passwords has mode %v", info.Mode())
	}
}

func TestMissingStateIsEmpty(t *testing.T) {
	s, err := readState(filepath.Join(t.TempDir(), "state.json"))
	must(t, err)
	s.Services["order-service"] = process.ID{} // the map exists
}

func TestBrokenStateIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	must(t, os.WriteFile(file, []byte(`{"services": [`), 0o600))
	if _, err := readState(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a broken state: %v", err)
	}
}

func TestOnlyOneCommandChangesTheStack(t *testing.T) {
	root := fakeCheckout(t)
	first, second, reader := newStack(t), newStack(t), newStack(t)
	must(t, first.open(root, true))
	if err := second.open(root, true); err == nil {
		t.Error("two commands change the stack at the same time")
	}
	must(t, reader.open(root, false))
	must(t, first.lock.Close())
	must(t, second.open(root, true))
	must(t, second.lock.Close())
}
