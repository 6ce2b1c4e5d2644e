package main

import (
	"os"
	"strings"

	"github.com/prometheus/procfs"
)

// cpuSeconds is CPU time by program.
type cpuSeconds map[string]float64

// programs are the kernel's process names, which are cut at 15 bytes.
var programs = map[string]string{
	"postgres": "postgres", "beam.smp": "broker", "order-service": "service", "notification-se": "service",
	"bench": "client", "peers": "service",
}

// usedCPU sums the CPU time of this process and of those that it has started. The time of an ended
// process counts for its parent, unless that is this process. Without /proc it returns nil.
func usedCPU() cpuSeconds {
	processes, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	stats := map[int]procfs.ProcStat{}
	for _, p := range processes {
		if stat, err := p.Stat(); err == nil {
			stats[p.PID] = stat
		}
	}
	used := cpuSeconds{}
	for pid, stat := range stats {
		if program := programs[strings.TrimSpace(stat.Comm)]; program != "" && isOurs(pid, stats) {
			used[program] += stat.CPUTime()
			if pid != os.Getpid() {
				used[program] += float64(stat.CUTime+stat.CSTime) / userHertz
			}
		}
	}
	return used
}

// userHertz is the unit of the kernel's CPU times on all Linux platforms of Go.
const userHertz = 100

// isOurs reports whether pid descends from this process.
func isOurs(pid int, stats map[int]procfs.ProcStat) bool {
	for pid > 1 && pid != os.Getpid() {
		pid = stats[pid].PPID
	}
	return pid == os.Getpid()
}

// addCPU adds the CPU time since before, in µs for each of n items. The program's name is appended
// to the key.
func (b *bench) addCPU(key string, before cpuSeconds, n int) {
	for program, seconds := range usedCPU() {
		if used := seconds - before[program]; used > 0 {
			b.samples.add(key+"_"+program, used*1e6/float64(n))
		}
	}
}
