package blake2b

import (
	"encoding/hex"
	"testing"
)

func TestBLAKE2b(t *testing.T) {
	tests := []struct {
		name string
		data []byte
		size int
		want string
	}{
		{"the example of RFC 7693, appendix A", []byte("abc"), 64,
			"ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923"},
		{"the self-test of RFC 7693, appendix E, without the keyed half", selfTest(), 32, "681f345ad53c6360214ea500fd259edddbca775f605fad81b9b189d6d88e15c6"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := hex.EncodeToString(Sum(tt.data, tt.size)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// selfTest returns the digests, of several lengths, of the sequences in the RFC.
func selfTest() []byte {
	sequence := func(n int) []byte {
		out, a, b := make([]byte, n), 0xDEAD4BAD*uint32(n), uint32(1)
		for i := range out {
			a, b = b, a+b
			out[i] = byte(b >> 24)
		}
		return out
	}
	var all []byte
	for _, size := range []int{20, 32, 48, 64} {
		for _, n := range []int{0, 3, 128, 129, 255, 1024} {
			all = append(all, Sum(sequence(n), size)...)
		}
	}
	return all
}
