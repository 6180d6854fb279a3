package certs

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The files in testdata/keys are one key, encrypted by OpenSSL 3.0 in many ways with the password "secret".

func readKey(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "keys", name+".pem"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecryptKey(t *testing.T) {
	cert := certificateFor(t, readKey(t, "plain"))
	for _, tt := range []struct{ name, password, err string }{
		{"plain", "", ""},
		{"plain", "needless", ""},
		{"aes128-sha1", "secret", ""},
		{"aes192-sha512", "secret", ""},
		{"aes256-sha256", "secret", ""},
		{"aes256-sha384", "secret", ""},
		{"des3", "secret", ""},
		{"one-iteration", "secret", ""},
		{"legacy-aes256", "secret", ""},
		{"legacy-des3", "secret", ""},
		{"aes256-sha256", "wrong", errKeyPassword.Error()},
		{"legacy-aes256", "wrong", errKeyPassword.Error()},
		{"aes256-sha256", "", "the key is encrypted, and no password is given"},
		{"legacy-aes256", "", "the key is encrypted, and no password is given"},
		{"scrypt", "secret", "the encrypted key: the key derivation 1.3.6.1.4.1.11591.4.11 is not supported, only PBKDF2"},
		{"pbes1", "secret", "the encrypted key: the scheme 1.2.840.113549.1.12.1.3 is not supported, only PBES2"},
	} {
		t.Run("AC-46 "+tt.name+" with "+tt.password, func(t *testing.T) {
			got, err := DecryptKey(readKey(t, tt.name), tt.password)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("got %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tls.X509KeyPair(cert, got); err != nil { // another key fails, too
				t.Fatal(err)
			}
		})
	}
	t.Run("AC-46 no wrong password is taken for the right one", func(t *testing.T) {
		for i := range 1000 {
			if _, err := DecryptKey(readKey(t, "one-iteration"), fmt.Sprint("wrong ", i)); err != errKeyPassword {
				t.Fatalf("the password %d: %v", i, err)
			}
		}
	})
	t.Run("AC-46 parameters before the key do not matter", func(t *testing.T) {
		parameters := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 1, 1}})
		got, err := DecryptKey(append(parameters, readKey(t, "aes128-sha1")...), "secret")
		if err != nil || !bytes.Equal(got, readKey(t, "plain")) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// certificateFor returns PEM of a self-signed certificate for a key.
func certificateFor(t testing.TB, key []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(key)
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "a"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.(crypto.Signer).Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestParseEncryptedKey(t *testing.T) {
	block, _ := pem.Decode(readKey(t, "aes256-sha256"))
	change := func(old, young string) []byte { return bytes.Replace(block.Bytes, []byte(old), []byte(young), 1) }
	for _, tt := range []struct {
		name string
		der  []byte
		want string
	}{
		{"nothing", nil, "asn1: syntax error: sequence truncated"},
		{"cut off", block.Bytes[:40], "asn1: syntax error: data truncated"},
		{"something more", append(block.Bytes[:len(block.Bytes):len(block.Bytes)], 0), "there is something after its end"},
		{"negative iterations", change("\x02\x02\x08\x00", "\x02\x02\x88\x00"), "-30720 iterations are not between 1 and 10000000"},
		{"another cipher", change("\x60\x86\x48\x01\x65\x03\x04\x01\x2a", "\x60\x86\x48\x01\x65\x03\x04\x01\x2e"), "the cipher 2.16.840.1.101.3.4.1.46 is not supported, only AES and Triple DES in CBC mode"},
		{"another hash", change("\x2a\x86\x48\x86\xf7\x0d\x02\x09", "\x2a\x86\x48\x86\xf7\x0d\x02\x06"), "the pseudo-random function 1.2.840.113549.2.6 is not supported, only HMAC with SHA-1 and SHA-2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseEncryptedKey(tt.der)
			if got := fmt.Sprint(err); tt.want != "" && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzEncryptedKey(f *testing.F) {
	for _, name := range []string{"aes128-sha1", "des3", "one-iteration", "scrypt", "pbes1"} {
		block, _ := pem.Decode(readKey(f, name))
		f.Add(block.Bytes)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		key, err := parseEncryptedKey(der)
		if err != nil || key.iterations > 10000 {
			return
		}
		if plain, err := key.decrypt("secret"); err == nil {
			if _, err := x509.ParsePKCS8PrivateKey(plain); err != nil {
				t.Errorf("what is decrypted is no key: %v", err)
			}
		}
	})
}

// FuzzKeyPEM decrypts keys in PEM, and checks that the result is not encrypted.
func FuzzKeyPEM(f *testing.F) {
	f.Add([]byte("-----BEGIN X-----\nQUJD\n-----END X-----\n"))
	f.Add(readKey(f, "aes128-sha1"))
	f.Add(readKey(f, "legacy-des3"))
	f.Fuzz(func(t *testing.T, text []byte) {
		types := pemTypes(text)
		if len(types) == 0 {
			return
		}
		if key, err := DecryptKey(cheapKey(text), "secret"); err == nil && bytes.Contains(key, []byte("BEGIN ENCRYPTED PRIVATE KEY")) && types[0] == "ENCRYPTED PRIVATE KEY" {
			t.Errorf("%q is decrypted to %q", text, key)
		}
	})
}

// cheapKey returns PEM whose keys decrypt quickly.
func cheapKey(text []byte) []byte {
	var cheap []byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if key, err := parseEncryptedKey(block.Bytes); err != nil || key.iterations < 10000 {
			cheap = append(cheap, pem.EncodeToMemory(block)...)
		}
	}
	return cheap
}

func pemTypes(text []byte) (types []string) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		types = append(types, block.Type)
	}
	return types
}
