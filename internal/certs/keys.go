package certs

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// This file decrypts private keys: PKCS #8 with PBES2 (RFC 8018), which OpenSSL writes, and the older format with a DEK-Info header. It reads no files.

// maxKeyIterations limits the time to decrypt a key. It is ten times the recommended number, and takes some seconds.
const maxKeyIterations = 10_000_000

var errKeyPassword = errors.New("the key cannot be decrypted; the password is wrong, or the key is damaged")

// DecryptKey returns PEM with the decrypted key of the given PEM. It returns a key without encryption unchanged, and then needs no password.
func DecryptKey(data []byte, password string) ([]byte, error) {
	for rest := data; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		switch {
		case block == nil:
			return data, nil // crypto/tls reports the missing key
		case block.Type == "ENCRYPTED PRIVATE KEY":
			return decryptBlock(block, password, decryptPKCS8)
		case strings.HasSuffix(block.Type, "PRIVATE KEY") && block.Headers["DEK-Info"] != "":
			return decryptBlock(block, password, func([]byte, string) (*pem.Block, error) { return decryptLegacy(block, password) })
		}
	}
}

func decryptBlock(block *pem.Block, password string, decrypt func([]byte, string) (*pem.Block, error)) ([]byte, error) {
	if password == "" {
		return nil, errors.New("the key is encrypted, and no password is given")
	}
	plain, err := decrypt(block.Bytes, password)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(plain), nil
}

// decryptLegacy decrypts the format of older OpenSSL versions.
func decryptLegacy(block *pem.Block, password string) (*pem.Block, error) {
	//lint:ignore SA1019 the form is weak, but it is that of keys which people have
	plain, err := x509.DecryptPEMBlock(block, []byte(password))
	if err != nil {
		return nil, errKeyPassword
	}
	return &pem.Block{Type: block.Type, Bytes: plain}, nil
}

func decryptPKCS8(der []byte, password string) (*pem.Block, error) {
	key, err := parseEncryptedKey(der)
	if err != nil {
		return nil, fmt.Errorf("the encrypted key: %w", err)
	}
	plain, err := key.decrypt(password)
	if err != nil {
		return nil, err
	}
	return &pem.Block{Type: "PRIVATE KEY", Bytes: plain}, nil
}

// encryptedKey is an EncryptedPrivateKeyInfo (RFC 5958, section 3) with PBES2.
type encryptedKey struct {
	salt       []byte
	iterations int
	hash       func() hash.Hash // of the HMAC in PBKDF2
	keySize    int              // in bytes
	block      func(key []byte) (cipher.Block, error)
	iv         []byte // as long as a block
	data       []byte // one or more whole blocks
}

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

// parseEncryptedKey parses the encryption parameters of a key, and rejects unsupported ones.
func parseEncryptedKey(der []byte) (*encryptedKey, error) {
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	if err := unmarshalWhole(der, &info); err != nil {
		return nil, err
	}
	if !info.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, fmt.Errorf("the scheme %s is not supported, only PBES2", info.Algorithm.Algorithm)
	}
	var scheme struct{ Derivation, Encryption pkix.AlgorithmIdentifier }
	if err := unmarshalWhole(info.Algorithm.Parameters.FullBytes, &scheme); err != nil {
		return nil, err
	}
	key := &encryptedKey{data: info.Data}
	if err := key.setCipher(scheme.Encryption); err != nil {
		return nil, err
	}
	if err := key.setDerivation(scheme.Derivation); err != nil {
		return nil, err
	}
	if len(key.data) == 0 || len(key.data)%len(key.iv) != 0 {
		return nil, fmt.Errorf("%d bytes are not whole blocks of %d", len(key.data), len(key.iv))
	}
	return key, nil
}

// unmarshalWhole decodes a DER value without trailing data.
func unmarshalWhole(der []byte, into any) error {
	rest, err := asn1.Unmarshal(der, into)
	if err == nil && len(rest) > 0 {
		err = errors.New("there is something after its end")
	}
	return err
}

// setCipher parses the cipher: AES or Triple DES in CBC mode.
func (k *encryptedKey) setCipher(a pkix.AlgorithmIdentifier) error {
	size := aes.BlockSize
	switch oid := a.Algorithm.String(); oid {
	case "2.16.840.1.101.3.4.1.2":
		k.keySize, k.block = 16, aes.NewCipher
	case "2.16.840.1.101.3.4.1.22":
		k.keySize, k.block = 24, aes.NewCipher
	case "2.16.840.1.101.3.4.1.42":
		k.keySize, k.block = 32, aes.NewCipher
	case "1.2.840.113549.3.7":
		k.keySize, k.block, size = 24, des.NewTripleDESCipher, des.BlockSize
	default:
		return fmt.Errorf("the cipher %s is not supported, only AES and Triple DES in CBC mode", oid)
	}
	if err := unmarshalWhole(a.Parameters.FullBytes, &k.iv); err != nil {
		return err
	}
	if len(k.iv) != size {
		return fmt.Errorf("the initialization vector has %d bytes, not %d", len(k.iv), size)
	}
	return nil
}

// setDerivation parses the key derivation: PBKDF2.
func (k *encryptedKey) setDerivation(a pkix.AlgorithmIdentifier) error {
	if !a.Algorithm.Equal(oidPBKDF2) {
		return fmt.Errorf("the key derivation %s is not supported, only PBKDF2", a.Algorithm)
	}
	var params struct {
		Salt       []byte
		Iterations int
		KeySize    int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
	if err := unmarshalWhole(a.Parameters.FullBytes, &params); err != nil {
		return err
	}
	k.salt, k.iterations = params.Salt, params.Iterations
	switch oid := params.PRF.Algorithm.String(); oid {
	case "", "1.2.840.113549.2.7":
		k.hash = sha1.New
	case "1.2.840.113549.2.9":
		k.hash = sha256.New
	case "1.2.840.113549.2.10":
		k.hash = sha512.New384
	case "1.2.840.113549.2.11":
		k.hash = sha512.New
	default:
		return fmt.Errorf("the pseudo-random function %s is not supported, only HMAC with SHA-1 and SHA-2", oid)
	}
	switch {
	case k.iterations < 1 || k.iterations > maxKeyIterations:
		return fmt.Errorf("%d iterations are not between 1 and %d", k.iterations, maxKeyIterations)
	case params.KeySize != 0 && params.KeySize != k.keySize:
		return fmt.Errorf("a key of %d bytes does not fit the cipher, which takes %d", params.KeySize, k.keySize)
	}
	return nil
}

// decrypt returns the PKCS #8 of the key.
func (k *encryptedKey) decrypt(password string) ([]byte, error) {
	secret, err := pbkdf2.Key(k.hash, password, k.salt, k.iterations, k.keySize)
	if err != nil {
		return nil, err
	}
	block, err := k.block(secret)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, len(k.data))
	cipher.NewCBCDecrypter(block, k.iv).CryptBlocks(plain, k.data)
	n := int(plain[len(plain)-1]) // bytes of padding, each with this value (RFC 8018, section 6.1.1)
	if n == 0 || n > len(k.iv) || !bytes.Equal(plain[len(plain)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, errKeyPassword
	}
	plain = plain[:len(plain)-n]
	if _, err := x509.ParsePKCS8PrivateKey(plain); err != nil {
		return nil, errKeyPassword
	}
	return plain, nil
}
