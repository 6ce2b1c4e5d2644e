//go:build unix && !linux

package process

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing: only Linux can do this.
func dieWithParent(*syscall.SysProcAttr) {}

func lookUp(pid int) status {
	for _, s := range ps("-p", strconv.Itoa(pid)) {
		return s
	}
	return status{}
}

func lookUpAll() []status { return ps("-A") }

// ps runs the program ps, which every Unix has.
func ps(which ...string) []status {
	var all []status
	out, _ := exec.Command("ps", append(which, "-o", "pid=,ppid=,stat=,lstart=")...).Output()
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		pid, _ := strconv.Atoi(fields[0])
		parent, _ := strconv.Atoi(fields[1])
		all = append(all, status{
			ID:     ID{PID: pid, Started: strings.Join(fields[3:], " ")},
			parent: parent,
			zombie: strings.HasPrefix(fields[2], "Z"),
		})
	}
	return all
}
