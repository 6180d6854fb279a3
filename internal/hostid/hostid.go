// Package hostid identifies a process by its user and host, from environment variables, /etc/hosts and /etc/passwd.
package hostid

import (
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Identity returns the identity of this process: that of its pod, or a unique one.
func Identity() string {
	if pod := os.Getenv("POD_ID"); pod != "" {
		return pod
	}
	const letters = "abcdefhijklmnopqrstuvwxyz0123456789"
	id := []byte(UserAtHost() + time.Now().UTC().Format("/20060102150405/"))
	for range 3 {
		id = append(id, letters[rand.IntN(len(letters))])
	}
	return string(id)
}

// UserAtHost returns the user and the host of this process.
func UserAtHost() string {
	hosts, _ := os.ReadFile("/etc/hosts") // both files may be missing
	users, _ := os.ReadFile("/etc/passwd")
	own, _ := os.Hostname()
	return userName(os.Getenv, string(users), strconv.Itoa(os.Getuid())) + "@" + hostName(string(hosts), own)
}

// userName returns the name of the user: from environment variables, or by the user's number, or that number.
func userName(env func(string) string, users, uid string) string {
	for _, variable := range []string{"LOGNAME", "USER", "LNAME", "USERNAME"} {
		if name := env(variable); name != "" {
			return name
		}
	}
	for _, line := range strings.Split(users, "\n") {
		if fields := strings.Split(line, ":"); len(fields) > 2 && fields[2] == uid {
			return fields[0]
		}
	}
	return uid
}

// hostName returns the most specific name of this host in its hosts file: one with a domain, or another name that is neither localhost nor an address.
// Otherwise, it returns the host's own name.
func hostName(hosts, own string) string {
	names := hostLine(hosts, func(fields []string) bool { return slices.Contains(fields[1:], own) })
	if names != nil {
		address := names[0]
		names = hostLine(hosts, func(fields []string) bool { return fields[0] == address })[1:]
	}
	for _, domain := range []string{".", ""} {
		for _, name := range names {
			if name != "localhost" && net.ParseIP(name) == nil && !strings.HasSuffix(name, ".arpa") && strings.Contains(name, domain) {
				return plainHost(name)
			}
		}
	}
	return plainHost(own)
}

// plainHost removes meaningless suffixes from a host name.
func plainHost(name string) string {
	for {
		plain := strings.TrimSuffix(strings.TrimSuffix(name, ".local"), ".localdomain")
		if plain == name {
			return name
		}
		name = plain
	}
}

// hostLine returns the fields of the first matching line in a hosts file, or nil.
func hostLine(hosts string, is func(fields []string) bool) []string {
	for _, line := range strings.Split(hosts, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 1 && is(fields) {
			return fields
		}
	}
	return nil
}
