package publisher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ErrNotDurable means: a power failure may lose messages that the server has confirmed.
var ErrNotDurable = errors.New("the server confirms messages before they are on the disk: set `jetstream { sync_interval: always }` in its configuration")

// monitoringTimeout is for one server's answer.
const monitoringTimeout = 5 * time.Second

// jsz is the part of /jsz that is needed. An old server does not say whether it syncs.
type jsz struct {
	ServerID string `json:"server_id"`
	Config   struct {
		SyncAlways bool `json:"sync_always"`
	} `json:"config"`
}

// CheckDurable requires that the servers with these monitoring addresses write each message to the
// disk before they confirm it. The server of this session must be one of them. Clients cannot read
// that setting over their own connection.
func (s *Session) CheckDurable(ctx context.Context, monitoring []string) error {
	var ids []string
	for _, address := range monitoring {
		server, err := readJSZ(ctx, address)
		if err != nil {
			return fmt.Errorf("asking %s whether messages are synced: %w", address, err)
		}
		if !server.Config.SyncAlways {
			return fmt.Errorf("%s: %w", address, ErrNotDurable)
		}
		ids = append(ids, server.ServerID)
	}
	if own := s.conn.ConnectedServerId(); !slices.Contains(ids, own) {
		return fmt.Errorf("the server of this connection, %s, is not among those that were asked (%s)", own, strings.Join(ids, ", "))
	}
	return nil
}

func readJSZ(ctx context.Context, address string) (jsz, error) {
	ctx, cancel := context.WithTimeout(ctx, monitoringTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/jsz", nil)
	if err != nil {
		return jsz{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return jsz{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return jsz{}, fmt.Errorf("it answers %s", response.Status)
	}
	var answer jsz
	err = json.NewDecoder(response.Body).Decode(&answer)
	return answer, err
}
