// Years that are years of four digits in every zone.
const DATE = '(?!9999)[1-9]\\d{3}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])'
const TIME = '([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d(\\.\\d{1,3})?)?'
const ZONE = '(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)'

/** Pattern of an ISO 8601 time with a zone: without one, nobody knows when that was. */
export const INSTANT = `^${DATE}T${TIME}${ZONE}$`
