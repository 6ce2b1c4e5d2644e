package order

// PlaceIn is the transaction of Place, for tests that interrupt it.
var PlaceIn = placeIn
