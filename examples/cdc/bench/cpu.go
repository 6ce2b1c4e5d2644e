package main

import (
	"os"

	"github.com/prometheus/procfs"
)

// cpu is the CPU time that each program has used, in seconds.
func (b *bench) cpu(relay *service) map[string]float64 {
	used := map[string]float64{"client": secondsOf(os.Getpid())}
	stats := allStats()
	for pid, stat := range stats {
		switch {
		case stat.Comm == "postgres" && isBelow(pid, os.Getpid(), stats):
			used["PostgreSQL"] += stat.CPUTime() + float64(stat.CUTime+stat.CSTime)/userHertz
		case stat.Comm == "beam.smp" && isBelow(pid, os.Getpid(), stats):
			used["broker"] += stat.CPUTime()
		}
	}
	if relay != nil {
		used["relay"] = secondsOf(relay.PID)
	}
	return used
}

// userHertz is the unit of the kernel's CPU times on all Linux platforms of Go.
const userHertz = 100

func allStats() map[int]procfs.ProcStat {
	stats := map[int]procfs.ProcStat{}
	processes, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	for _, p := range processes {
		if stat, err := p.Stat(); err == nil {
			stats[p.PID] = stat
		}
	}
	return stats
}

func isBelow(pid, ancestor int, stats map[int]procfs.ProcStat) bool {
	for pid > 1 && pid != ancestor {
		pid = stats[pid].PPID
	}
	return pid == ancestor
}

func secondsOf(pid int) float64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return stat.CPUTime()
}

func (b *bench) addCPU(figure string, before, after map[string]float64, n int) {
	for _, program := range []string{"PostgreSQL", "broker", "relay", "client"} {
		if used := after[program] - before[program]; used > 0 {
			b.add(figure+program, used*1e6/float64(n))
		}
	}
}
