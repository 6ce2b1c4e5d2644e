// Package page is the frame of the web page that a service has at / of its ops port: layout,
// users and roles, security headers, previews, decisions in the background, and live numbers.
// It knows nothing of orders or e-mails. A service adds its pages:
//
//	func Register(p *page.Page, d Dependencies) {
//		p.Numbers(d.numbers)                                 // for the overview
//		p.Section("/failed", "Failed events")                // for the navigation
//		p.Handle("GET /failed", page.Read, d.listFailed)     // who may see it
//		p.Handle("POST /failed/preview", page.Operate, d.previewFailed)
//		p.Handle("POST /failed/decide", page.Operate, d.decideFailed)
//	}
//
// A [Handler] returns what the page shows: a title and [Part] values, such as [Table], [Filter],
// [Pager], [Timeline], [Fields], [Groups], [Confirm] or [Message]. The frame has one template for
// each type of part, and escapes every value. A service has no templates, so it cannot escape
// wrongly. An error made with [Errorf] is shown to the user; another error is logged, and the user
// sees only what kind of error it is. See the Example.
//
// A decision changes several items. It needs two requests, both of role [Operate]:
//
//  1. The preview: the handler finds the items, calls [Page.Preview], and shows the [Confirm] that
//     it returns. The server keeps the items.
//  2. The decision: the handler returns [Page.Decide] with a function that changes the items. It
//     runs in the background, one in a process at a time, and the user is sent to
//     /audit/{decision}. The page there shows [Page.Progress].
//
// The context of a handler ends after [QueryTimeout]. At most [maxQueries] handlers run at the same
// time. Handlers use a small pool of connections of their own, never that of the API or the relay.
//
// The frame itself answers / (the overview), /events (server-sent events with the numbers) and
// /assets/.
package page
