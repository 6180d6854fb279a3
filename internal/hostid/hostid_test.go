package hostid

import "testing"

func TestHostName(t *testing.T) {
	tests := []struct{ name, hosts, own, want string }{
		{name: "OP-84 a name with a domain", hosts: "127.0.0.1 localhost\n10.0.0.1 short box.example.com box # a.b\n", own: "box", want: "box.example.com"},
		{name: "OP-84 the first one without", hosts: "10.0.0.1 10.0.0.1 ::1 localhost first 1.0.ip6.arpa box\n", own: "box", want: "first"},
		{name: "OP-84 neither an address nor that of one", hosts: "10.0.0.1 localhost 4.3.2.1 x.ip6.arpa\n10.0.0.1 box\n", own: "box", want: "box"},
		{name: "OP-84 the first line of the address", hosts: "10.0.0.1 other\n# 10.0.0.1 a.b\n10.0.0.1 box.example.com box\n", own: "box", want: "other"},
		{name: "OP-84 no line", hosts: "127.0.0.1 localhost\n", own: "box", want: "box"},
		{name: "OP-84 no table", own: "box.example.com", want: "box.example.com"},
		{name: "OP-84 endings that say nothing", own: "box.local.localdomain.local", want: "box"},
		{name: "OP-84 endings of names in the table", hosts: "10.0.0.1 fine.localdomain box\n", own: "box", want: "fine"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := hostName(tt.hosts, tt.own); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestUserName(t *testing.T) {
	users := "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n"
	tests := []struct {
		name string
		env  map[string]string
		uid  string
		want string
	}{
		{name: "OP-82 the first variable", env: map[string]string{"LOGNAME": "a", "USER": "b"}, want: "a"},
		{name: "OP-82 the second variable", env: map[string]string{"USER": "b", "LNAME": "c"}, want: "b"},
		{name: "OP-82 the third variable", env: map[string]string{"LNAME": "c", "USERNAME": "d"}, want: "c"},
		{name: "OP-82 the last variable", env: map[string]string{"USERNAME": "d"}, want: "d"},
		{name: "OP-82 the login name", uid: "1000", want: "alice"},
		{name: "OP-T30 the number of a user without a name", uid: "12345", want: "12345"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := userName(func(name string) string { return tt.env[name] }, users, tt.uid); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
