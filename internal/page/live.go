package page

// liveNumbers and liveNode are what the script live.js shows. The server formats the numbers, so
// the page looks the same with the script and without it.
type liveNumbers struct {
	Error string     `json:"error"`
	Gates []string   `json:"gates"`
	Nodes []liveNode `json:"nodes"`
}

type liveNode struct {
	Name   string `json:"name"`
	Count  string `json:"count"`
	Rate   string `json:"rate"`
	Oldest string `json:"oldest"`
	Note   string `json:"note"`
	Level  Level  `json:"level"`
}

func (d Diagram) live() liveNumbers {
	numbers := liveNumbers{Error: visible(d.Error), Gates: []string{}, Nodes: []liveNode{}}
	for _, gate := range d.Gates {
		numbers.Gates = append(numbers.Gates, visible(gate))
	}
	for _, n := range d.Nodes {
		numbers.Nodes = append(numbers.Nodes, liveNode{n.Name, n.CountText(), n.RateText(), n.OldestText(), visible(n.Note), n.Level})
	}
	return numbers
}
