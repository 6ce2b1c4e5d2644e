package main

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/prometheus/procfs"

	"example.com/transactional-outbox/test/env/services"
)

// processes are those whose CPU time is measured. The client is this process, which is also the
// bare program and the mail server.
var processes = [...]string{"service", "postgresql", "broker", "client"}

// usage is what the processes have used.
type usage struct {
	ticks  map[string]int // CPU time so far, by process
	memory int            // resident bytes of the services
}

// withoutBroker are workloads in which the broker works only on what came before.
var withoutBroker = []string{"bare_pgx", "bare_batch", "mail", "bare_mail"}

// ticksPerSecond is USER_HZ, the unit of CPU time in /proc: 100 on every Linux that Go supports.
const ticksPerSecond = 100

// measure begins the measurement of a workload. The returned function ends it after n operations: it
// adds their rate, the CPU time for each, and the memory.
func (b *bench) measure(workload string, running ...*services.Process) (done func(n int) error) {
	owners := map[int]string{b.Database.PID(): "postgresql", b.Broker.PID(): "broker", os.Getpid(): "client"}
	for _, s := range running {
		owners[s.PID] = "service"
	}
	before, notRead := readUsage(owners)
	began := time.Now()
	return func(n int) error {
		took := time.Since(began)
		after, err := readUsage(owners)
		all := 0.0
		for _, process := range processes {
			if process == "broker" && slices.Contains(withoutBroker, workload) {
				continue
			}
			used := float64(after.ticks[process]-before.ticks[process]) / ticksPerSecond * 1e6 / float64(n)
			b.samples.add(cpuKey(workload, process), used)
			all += used
		}
		b.samples.add(cpuKey(workload, "all"), all)
		b.samples.add(workload+"_per_s", float64(n)/took.Seconds())
		if len(running) > 0 {
			b.samples.add(workload+"_rss_mib", float64(after.memory)/(1<<20))
		}
		return errors.Join(notRead, err)
	}
}

func cpuKey(workload, process string) string { return workload + "_cpu_us_" + process }

// readUsage returns what each owner has used: its process and all that this has started, also what
// has ended. The client counts alone, because what it has started has owners of its own.
func readUsage(owners map[int]string) (usage, error) {
	total := usage{ticks: map[string]int{}}
	all, err := procfs.AllProcs()
	stats := map[int]procfs.ProcStat{}
	for _, p := range all {
		if stat, err := p.Stat(); err == nil { // otherwise it has just ended
			stats[p.PID] = stat
		}
	}
	for _, stat := range stats {
		ancestor := stat.PID
		for ancestor != 0 && owners[ancestor] == "" {
			ancestor = stats[ancestor].PPID
		}
		owner := owners[ancestor]
		if owner != "client" {
			total.ticks[owner] += int(stat.UTime+stat.STime) + stat.CUTime + stat.CSTime
		} else if stat.PID == ancestor {
			total.ticks[owner] += int(stat.UTime + stat.STime)
		}
		if owner == "service" {
			total.memory += stat.ResidentMemory()
		}
	}
	return total, err
}
