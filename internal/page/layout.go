package page

// Service, Sections, PeerLink and JaegerLink are for the layout.

// Service returns the name of the service.
func (p *Page) Service() string { return p.config.Service }

// Sections returns the navigation.
func (p *Page) Sections() []Link { return p.sections }

// PeerLink returns the link to the other service's page, or nothing.
func (p *Page) PeerLink() *Link { return linkTo(p.config.Peer, p.PeerPage("/")) }

// JaegerLink returns the link to Jaeger, or nothing.
func (p *Page) JaegerLink() *Link { return linkTo("Traces", join(p.config.Jaeger, "/")) }

func linkTo(text, to string) *Link {
	if to == "" {
		return nil
	}
	return &Link{text, to}
}
