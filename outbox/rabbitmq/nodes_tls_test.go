package rabbitmq

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTheCertificateMustBeOfTheHostThatIsTried: each node has a certificate for its own name only.
// An attempt at both must complete both TLS handshakes.
func TestTheCertificateMustBeOfTheHostThatIsTried(t *testing.T) {
	t.Parallel()
	authority := filepath.Join(t.TempDir(), "authority.pem")
	var certificates []byte
	handshakes := make(chan error, 2)
	var hosts string
	for _, host := range []string{"localhost", "127.0.0.1"} {
		certificate := newCertificate(t, host)
		certificates = append(certificates, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})...)
		_, port, err := net.SplitHostPort(serveTLS(t, certificate, handshakes))
		must(t, err)
		hosts += "," + net.JoinHostPort(host, port)
	}
	must(t, os.WriteFile(authority, certificates, 0o600))
	s, err := connect(t.Context(), Config{URL: "amqps://u:p@" + hosts[1:] + "/?cacertfile=" + authority, Name: t.Name()})
	if err == nil {
		s.close()
		t.Fatal("there is a session with a server that speaks no AMQP")
	}
	for range 2 {
		select {
		case failure := <-handshakes:
			if failure != nil {
				t.Errorf("a TLS handshake failed: %v; the attempt ended with: %v", failure, err)
			}
		case <-time.After(dialTimeout):
			t.Fatalf("a node was not tried; the attempt ended with: %v", err)
		}
	}
}

// serveTLS completes the TLS handshake of each connection, and closes it.
func serveTLS(t *testing.T, certificate tls.Certificate, handshakes chan<- error) (address string) {
	t.Helper()
	return newNodesTest(t).listen(func(c net.Conn) {
		defer func() { _ = c.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), dialTimeout)
		defer cancel()
		handshakes <- tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}).HandshakeContext(ctx)
	}).Host
}

// newCertificate returns a certificate for one host, signed by itself.
func newCertificate(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
