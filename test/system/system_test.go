package system

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/test/env/mailserver"
	"example.com/transactional-outbox/test/env/servers"
	"example.com/transactional-outbox/test/env/services"
)

// system is the environment of one test.
type system struct {
	*testing.T
	database           *servers.PostgresServer
	broker             *servers.RabbitMQServer
	ordersDB           *pgxpool.Pool // order-service's database, as the superuser
	notificationsDB    *pgxpool.Pool // notification-service's database, as the superuser
	ordersRoles        servers.Roles
	notificationsRoles servers.Roles
	brokerURL          string // the test's virtual host, as guest, who may do everything
	mail               *mailserver.Server
}

// The mail server's replies.
var (
	notNow   = mailserver.Fault{Code: 451, Enhanced: [3]int{4, 3, 0}}.Refusal()
	noSuchTo = mailserver.Fault{Code: 550, Enhanced: [3]int{5, 1, 1}}.Refusal()
)

// testApplication is the application_name of the test's own connections to a database.
const testApplication = "test-system"

// newSystem creates databases, a virtual host and a mail server. It starts no service.
func newSystem(t *testing.T) *system {
	t.Helper()
	return newSystemOn(t, sharedDatabase, sharedBroker)
}

// newSystemOn does the same on private servers, which the test may stop.
func newSystemOn(t *testing.T, database *servers.PostgresServer, broker *servers.RabbitMQServer) *system {
	t.Helper()
	name, err := broker.NewVhost(t.Context(), repository)
	must(t, err)
	s := &system{T: t, database: database, broker: broker, brokerURL: broker.URL(name)}
	s.mail, err = mailserver.Open()
	must(t, err)
	t.Cleanup(s.mail.Close)
	s.ordersDB, s.ordersRoles = s.createDatabase(name+"_orders", services.Orders)
	s.notificationsDB, s.notificationsRoles = s.createDatabase(name+"_notifications", services.Notifications)
	return s
}

// createDatabase creates a migrated database with the roles of a service.
func (s *system) createDatabase(name, service string) (*pgxpool.Pool, servers.Roles) {
	s.Helper()
	var roles servers.Roles
	var err error
	if s.database == sharedDatabase {
		roles, err = s.database.CopyFor(s.Context(), repository, templateOf(service), name, roleOf(service))
	} else {
		roles, err = createMigrated(s.Context(), s.database, name, service)
	}
	must(s.T, err)
	pool, err := pgxpool.New(s.Context(), s.database.URL(name)+"&application_name="+testApplication)
	must(s.T, err)
	s.Cleanup(pool.Close)
	return pool, roles
}

// makeTemplates creates the databases that the databases of the tests are copies of. A copy costs
// less than the migrations do.
func makeTemplates(ctx context.Context) error {
	for _, service := range []string{services.Orders, services.Notifications} {
		if _, err := createMigrated(ctx, sharedDatabase, templateOf(service), service); err != nil {
			return err
		}
	}
	return nil
}

func roleOf(service string) string { return strings.ReplaceAll(service, "-", "_") }

func templateOf(service string) string { return roleOf(service) + "_template" }

func createMigrated(ctx context.Context, server *servers.PostgresServer, name, service string) (servers.Roles, error) {
	roles, err := server.CreateFor(ctx, repository, name, roleOf(service))
	if err != nil {
		return roles, err
	}
	return roles, migrate(ctx, service, roles)
}

// migrate migrates a service's database, as its owner.
func migrate(ctx context.Context, service string, roles servers.Roles) error {
	return services.Migrate(ctx, filepath.Join(binaries, service), filepath.Join(binaries, "migrate.log"), roles.Owner)
}

// connectionSettings returns the settings with which a service connects: as the
// application's role to its database, and as its own user to the broker.
func (s *system) connectionSettings(name string) []string {
	database := s.ordersRoles.Application
	if name == services.Notifications {
		database = s.notificationsRoles.Application
	}
	return []string{"DATABASE_URL=" + database, "AMQP_URL=" + servers.BrokerURLFor(name, s.brokerURL)}
}

// runOrders starts order-service: API and relay. Where a setting is given twice, the last
// one applies, here and below.
func (s *system) runOrders(settings ...string) *service {
	s.Helper()
	return s.runOrdersCommand("serve", settings...)
}

// runOrdersCommand starts order-service with a command: serve, or only api or relay.
func (s *system) runOrdersCommand(command string, settings ...string) *service {
	s.Helper()
	return startService(s.T, services.Orders, command, append(s.connectionSettings(services.Orders), settings...)...)
}

func (s *system) runNotifications(settings ...string) *service {
	s.Helper()
	return s.runNotificationsBinary(services.Notifications, settings...)
}

// runNotificationsBinary starts a build of notification-service, with delays that a test can wait
// for.
func (s *system) runNotificationsBinary(binary string, settings ...string) *service {
	s.Helper()
	return startService(s.T, binary, "serve", slices.Concat(s.connectionSettings(services.Notifications),
		[]string{"SMTP_URL=smtp://" + s.mail.Address(), "MAIL_FROM=shop@example.com", "RETRY_DELAYS=200ms,400ms,600ms", "RELAY_LEASE=5s"},
		settings)...)
}

// startConsumer starts notification-service on an existing exchange, and waits until it
// takes messages.
func (s *system) startConsumer(settings ...string) *service {
	s.Helper()
	s.declareExchange()
	service := s.runNotifications(settings...)
	service.awaitReadyz()
	return service
}

// runCommand runs an operator's command of a service.
func (s *system) runCommand(service string, arguments ...string) {
	s.Helper()
	command := exec.CommandContext(s.Context(), filepath.Join(binaries, service), arguments...)
	command.Env = append(s.connectionSettings(service), "APP_ENV=demo")
	if output, err := command.CombinedOutput(); err != nil {
		s.Fatalf("%s %v: %v\n%s", service, arguments, err, output)
	}
}

// brokerProxy starts a proxy between a service and the broker. The returned setting makes the
// service connect through it.
func (s *system) brokerProxy(service string) (proxy *servers.Proxy, setting string) {
	s.Helper()
	return s.proxyFor("AMQP_URL", servers.BrokerURLFor(service, s.brokerURL))
}

// proxyFor starts a proxy in front of the server of a URL, which a setting names.
func (s *system) proxyFor(variable, url string) (proxy *servers.Proxy, setting string) {
	s.Helper()
	proxy, through := servers.ProxyFor(s, url)
	return proxy, variable + "=" + through
}

// refuseConnections closes the open connections and refuses new ones.
func refuseConnections(p *servers.Proxy) {
	p.Refuse(true)
	p.Cut()
}
