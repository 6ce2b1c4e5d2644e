package system

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// badRelease builds notification-service with a file that makes each template panic.
var badRelease = sync.OnceValues(func() (name string, err error) {
	const folder, bad = "bad/", "package email\n\nfunc init() {\n\tfor key := range emailTemplates {\n\t\temailTemplates[key] = emailTemplate{}\n\t}\n}\n"
	source, overlay := filepath.Join(binaries, "bad.go"), filepath.Join(binaries, "overlay.json")
	into, err := filepath.Abs(filepath.Join(repository, "notification-service/internal/email/bad.go"))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {into: source}})
	if err != nil {
		return "", err
	}
	for path, content := range map[string][]byte{source: []byte(bad), overlay: text} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", err
		}
	}
	return folder + notificationService, goBuild("-overlay", overlay, "-o", filepath.Join(binaries, folder)+"/", "./notification-service")
})

// TestP9ABadReleaseLosesNoEmail has a release in which the template of every e-mail panics, until
// the next release.
func TestP9ABadReleaseLosesNoEmail(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	name, err := badRelease()
	must(t, err)
	s.declareExchange()
	bad, orders := s.runNotificationsBinary(name), newOrders(manyOrders)
	bad.awaitReadyz()
	s.publish(orders...)
	s.awaitCount(s.notificationsDB, len(shopDomains), pausedCount)
	s.awaitCount(s.notificationsDB, len(orders), waitingCount)
	letTimePass(faultLasts)
	bad.stop()
	if asked := s.mail.timesAsked(); asked != 0 {
		t.Errorf("the mail server was asked %d times", asked)
	}

	mended := time.Now()
	good := s.startConsumer()
	s.wantCount(awaitTimeout, s.notificationsDB, len(orders), sentCount)
	t.Logf("the last e-mail was sent %s after the mend", time.Since(mended).Round(time.Millisecond))
	s.wantOneEmailEach(orders...)
	s.wantNothingFailed(good)
}
