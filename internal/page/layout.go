package page

// Service, Sections and JaegerLink are for the layout.

// Service returns the name of the service.
func (p *Page) Service() string { return p.config.Service }

// Sections returns the navigation.
func (p *Page) Sections() []Link { return p.sections }

// JaegerLink returns the link to Jaeger, or nothing.
func (p *Page) JaegerLink() *Link {
	if p.config.Jaeger == "" {
		return nil
	}
	return &Link{"Traces", join(p.config.Jaeger, "/")}
}
