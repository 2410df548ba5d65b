// Years that are years of four digits in every zone, and the first and the last one in UTC.
const DATE = '(?!0000)(?!(0001|9999).*[+-]\\d\\d:\\d\\d$)\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])'
const TIME = '([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d(\\.\\d{1,3}0*)?)?'
const ZONE = '(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)'

/** Pattern of an ISO 8601 time with a zone: without one, nobody knows when that was. */
export const INSTANT = `^${DATE}T${TIME}${ZONE}$`
/** The same in words, for those who sent something else. */
export const INSTANT_FORM =
  'a time with a zone, to the millisecond at most, such as 2026-01-31T08:30:00.000Z or 2026-01-31T16:30:00+08:00'
