package credtransport

import (
	"crypto/tls"
	"fmt"
	"sync"
	"time"
)

// CertificateSource provides the client certificate for new connections. It reads changed files again.
type CertificateSource struct {
	CertificateData, KeyData []byte // PEM, optionally in base64
	CertificateFile, KeyFile string

	mu      sync.Mutex // guards all below
	current *tls.Certificate
	stamp   string // of the files of current
}

// Get returns the certificate, and reads changed files again. While they are invalid, it returns the last certificate.
func (s *CertificateSource) Get() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stamp := FileStamp(s.CertificateFile) + FileStamp(s.KeyFile)
	if s.current != nil && stamp == s.stamp {
		return s.current, nil
	}
	cert, err := s.read()
	if err != nil {
		if s.current != nil {
			return s.current, nil
		}
		return nil, err
	}
	s.current, s.stamp = cert, stamp
	return cert, nil
}

// End returns the expiration time of the certificate, or zero if there is none, or if it cannot be read.
func (s *CertificateSource) End() time.Time {
	if s == nil {
		return time.Time{}
	}
	cert, err := s.Get()
	if err != nil || cert.Leaf == nil {
		return time.Time{}
	}
	return cert.Leaf.NotAfter
}

func (s *CertificateSource) read() (*tls.Certificate, error) {
	cert, err := DataOf("the client certificate", s.CertificateData, s.CertificateFile)
	if err != nil {
		return nil, err
	}
	key, err := DataOf("the client key", s.KeyData, s.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("the client certificate: %w", err)
	}
	return &pair, nil
}
