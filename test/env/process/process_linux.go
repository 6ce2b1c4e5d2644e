package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// bootID distinguishes boots, because start times are relative to the boot.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})

// lookUp reads /proc. It returns the zero status if the process does not exist.
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
