package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Builds of the services beside the usual one, and the folders that they go to.
const (
	crashing  = "crashing"   // with crash points
	wrongTime = "wrong-time" // with a clock that CLOCK_AHEAD moves
)

// buildFor makes the builds that the scenarios need.
func (g *ground) buildFor(ctx context.Context, chosen []scenario) error {
	made := map[string]bool{}
	for _, build := range append([]scenario{{}}, chosen...) {
		if made[build.build] {
			continue
		}
		made[build.build] = true
		if err := g.build(ctx, build.build); err != nil {
			return err
		}
	}
	return nil
}

func (g *ground) build(ctx context.Context, build string) error {
	arguments := []string{"build"}
	switch build {
	case crashing:
		arguments = append(arguments, "-tags", "crashpoints")
	case wrongTime:
		overlay, err := g.moveClocks(ctx)
		if err != nil {
			return fmt.Errorf("moving the clocks: %w", err)
		}
		arguments = append(arguments, "-overlay", overlay)
	}
	if g.Race {
		arguments = append(arguments, "-race")
	}
	arguments = append(arguments, "-o", filepath.Join(g.folder, build)+"/", "./"+orderService, "./"+notificationService)
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = g.Source
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the services: %w\n%s", err, output)
	}
	return nil
}
