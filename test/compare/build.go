package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	designsProgram      = "designs"
	peersProgram        = "peers"
	orderService        = "order-service"
	notificationService = "notification-service"
)

// programs are the built programs.
type programs struct {
	folder, version string
	versions        map[string]string // the libraries of a design, with their versions
}

func (p programs) path(name string) string { return filepath.Join(p.folder, name) }

// peersFolder has a Go module of its own, so that only the rows that need it compile its libraries.
const peersFolder = "test/compare/peers"

// build builds the programs that the rows need.
func build(ctx context.Context, rows []row) (p programs, err error) {
	if p.folder, err = os.MkdirTemp("", "compare-"); err != nil {
		return p, err
	}
	if err := p.goBuild(ctx, ".", "./order-service", "./notification-service"); err != nil {
		return p, err
	}
	if err := p.goBuild(ctx, "test", "./compare/designs"); err != nil {
		return p, err
	}
	if slices.ContainsFunc(rows, func(r row) bool { return len(r.design.modules) > 0 }) {
		if err := p.goBuild(ctx, peersFolder, "."); err != nil {
			return p, err
		}
		if p.versions, err = versionsOf(p.path(peersProgram)); err != nil {
			return p, err
		}
	}
	p.version, err = p.hash()
	return p, err
}

func (p programs) goBuild(ctx context.Context, folder string, packages ...string) error {
	command := exec.CommandContext(ctx, "go", append([]string{"build", "-buildvcs=false", "-o", p.folder + "/"}, packages...)...)
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, output)
	}
	return nil
}

// hash returns the version of the programs: a hash of them, of this program, and of the files of
// the module peers, which may not be built.
func (p programs) hash() (string, error) {
	itself, err := os.Executable()
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(peersFolder, "*.*"))
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, path := range append(files, p.path(designsProgram), p.path(orderService), p.path(notificationService), itself) {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(hash, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil))[:12], nil
}

// versionsOf reads the versions of the libraries from a built program.
func versionsOf(program string) (map[string]string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, d := range designs {
		var all []string
		for _, module := range info.Deps {
			if slices.Contains(d.modules, module.Path) {
				all = append(all, shortName(module.Path)+" "+module.Version)
			}
		}
		versions[d.name] = strings.Join(all, ", ")
	}
	return versions, nil
}

// shortName is the path of a module without its host and owner, and without the major version.
func shortName(module string) string {
	if base := path.Base(module); !strings.HasPrefix(base, "v") {
		return base
	}
	return path.Base(path.Dir(module))
}
