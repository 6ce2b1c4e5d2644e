package page

// liveService and liveNode are what the script live.js shows. The server formats the numbers, so
// the page looks the same with the script and without it.
type liveService struct {
	Service string     `json:"service"`
	Error   string     `json:"error"`
	Gates   []string   `json:"gates"`
	Nodes   []liveNode `json:"nodes"`
}

type liveNode struct {
	Name   string `json:"name"`
	Count  string `json:"count"`
	Rate   string `json:"rate"`
	Oldest string `json:"oldest"`
	Note   string `json:"note"`
	Level  Level  `json:"level"`
}

func (d Diagram) live() []liveService {
	var all []liveService
	for _, s := range d.Services {
		one := liveService{Service: s.Service, Error: visible(s.Error), Gates: []string{}, Nodes: []liveNode{}}
		for _, gate := range s.Gates {
			one.Gates = append(one.Gates, visible(gate))
		}
		for _, n := range s.Nodes {
			one.Nodes = append(one.Nodes, liveNode{n.Name, n.CountText(), n.RateText(), n.OldestText(), visible(n.Note), n.Level})
		}
		all = append(all, one)
	}
	return all
}
