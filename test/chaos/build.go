package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Additional builds of the services, and their folders.
const (
	crashing  = "crashing"   // with crash points
	wrongTime = "wrong-time" // with a clock that CLOCK_AHEAD shifts
)

// buildFor builds the services for the scenarios.
func (env *environment) buildFor(ctx context.Context, chosen []scenario) error {
	made := map[string]bool{}
	for _, build := range append([]scenario{{}}, chosen...) {
		if made[build.build] {
			continue
		}
		made[build.build] = true
		if err := env.build(ctx, build.build); err != nil {
			return err
		}
	}
	return nil
}

func (env *environment) build(ctx context.Context, build string) error {
	arguments := []string{"build"}
	switch build {
	case crashing:
		arguments = append(arguments, "-tags", "crashpoints")
	case wrongTime:
		overlay, err := env.writeTimeOverlay(ctx)
		if err != nil {
			return fmt.Errorf("changing package time: %w", err)
		}
		arguments = append(arguments, "-overlay", overlay)
	}
	if env.Race {
		arguments = append(arguments, "-race")
	}
	arguments = append(arguments, "-o", filepath.Join(env.folder, build)+"/", "./"+orderService, "./"+notificationService)
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = env.Source
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the services: %w\n%s", err, output)
	}
	return nil
}
