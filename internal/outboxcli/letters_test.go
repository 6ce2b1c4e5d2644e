package outboxcli
