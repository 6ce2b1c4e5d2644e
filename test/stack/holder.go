package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processListeningOn returns the process that listens on an address. It works on Linux only, and
// for other users' processes as root only.
func processListeningOn(address string) string {
	for _, inode := range listeningSockets(address) {
		descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is well-formed
		for _, descriptor := range descriptors {
			if target, _ := os.Readlink(descriptor); target == "socket:["+inode+"]" {
				return describe(strings.Split(descriptor, "/")[2])
			}
		}
	}
	return "another process"
}

// listeningSockets returns the inodes of the sockets that listen on the port of an address.
func listeningSockets(address string) (inodes []string) {
	const local, status, inode, listening = 1, 3, 9, "0A" // see proc_net_tcp(5)
	_, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	suffix := fmt.Sprintf(":%04X", number)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, _ := os.ReadFile(file)
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) > inode && strings.HasSuffix(fields[local], suffix) && fields[status] == listening {
				inodes = append(inodes, fields[inode])
			}
		}
	}
	return inodes
}

func describe(pid string) string {
	name, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
	return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
}
