package order

// PlaceIn is what Place does in its transaction, for tests that break off after it.
var PlaceIn = placeIn
