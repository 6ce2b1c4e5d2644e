package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"
)

// cpuByGroup returns the CPU time by group. groups has the roots: a process counts for the group of
// its nearest ancestor in it, or of itself. All brokers of this process count for the group broker.
// A process that has ended counts for its parent.
func cpuByGroup(groups map[int]string) (cpuSeconds, error) {
	processes, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("the processes cannot be measured here: %w", err)
	}
	stats := map[int]procfs.ProcStat{}
	for _, p := range processes {
		if stat, err := p.Stat(); err == nil {
			stats[p.PID] = stat
		}
	}
	used := cpuSeconds{}
	for _, p := range processes {
		stat, alive := stats[p.PID]
		group := groupOf(p.PID, stats, groups)
		if strings.TrimSpace(stat.Comm) == "beam.smp" && isOurs(p.PID, stats) {
			group = "broker"
		}
		if !alive || group == "" {
			continue
		}
		used[group] += stat.CPUTime() + float64(stat.CUTime+stat.CSTime)/userHertz
	}
	return used, nil
}

func groupOf(pid int, stats map[int]procfs.ProcStat, groups map[int]string) string {
	for ; pid > 1; pid = stats[pid].PPID {
		if group := groups[pid]; group != "" {
			return group
		}
	}
	return ""
}

// postmaster returns the process of the database's server that has started all its others.
func (d database) postmaster(ctx context.Context) (int, error) {
	backend, err := queryValue[int](ctx, d, "SELECT pg_backend_pid()")
	if err != nil {
		return 0, err
	}
	p, err := procfs.NewProc(backend)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return stat.PPID, err
}

// writtenTo returns the bytes that the disk of this folder has written, for all programs. (The
// kernel also counts by process. But of a file with large pages it counts a whole page for each
// write.) It returns 0 if the folder is not on a disk of its own kind, such as in a container.
func writtenTo(folder string) (float64, error) {
	info, err := os.Stat(folder)
	if err != nil {
		return 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, nil
	}
	devices, err := blockdevice.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	all, err := devices.ProcDiskstats()
	if err != nil {
		return 0, err
	}
	const sector = 512 // of these statistics, whatever the disk has
	for _, d := range all {
		if major, minor := number(uint64(stat.Dev)); d.MajorNumber == major && d.MinorNumber == minor { //nolint:unconvert // not on all systems
			return float64(d.WriteSectors) * sector, nil
		}
	}
	return 0, nil
}

// number returns the two parts of Linux's number of a device.
func number(device uint64) (major, minor uint32) {
	return uint32(device>>8) & 0xfff, uint32(device)&0xff | uint32(device>>12)&0xfff00 //nolint:gosec // 12 and 20 bits
}
