package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

func attributes(attr *syscall.SysProcAttr, lifetime Lifetime) *syscall.SysProcAttr {
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	if lifetime == Detached {
		attr.Setsid = true
		return attr
	}
	attr.Setpgid = true // so that Ctrl-C reaches the test, which ends its servers in order, and not the servers
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}

type status struct {
	ID
	parent int
	zombie bool // dead, but its parent has not asked yet: in a container, pid 1 may never do
}

// bootID tells two boots apart, because start times are counted from the boot.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})

// lookUp reads /proc, and returns the zero status when there is no such process.
func lookUp(pid int) status {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return status{}
	}
	// The second field is the program's name, which may contain spaces and parentheses.
	const state, parent, startTime = 0, 1, 19 // counted after the name; see proc_pid_stat(5)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) <= startTime {
		return status{}
	}
	ppid, _ := strconv.Atoi(fields[parent])
	return status{
		ID:     ID{PID: pid, Started: bootID() + "/" + fields[startTime]},
		parent: ppid,
		zombie: fields[state] == "Z" || fields[state] == "X",
	}
}

func lookUpAll() []status {
	var all []status
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			all = append(all, lookUp(pid))
		}
	}
	return all
}
