package email

var FormatPrice, SingleLine = formatPrice, singleLine
