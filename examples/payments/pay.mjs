// Makes orders and has them paid through a service that loses answers; everything is asked for twice. At the end each
// order is paid and was charged once, whatever was lost.
//
//   node examples/payments/server.mjs &
//   node examples/payments/pay.mjs [--url http://127.0.0.1:7070] [--payments http://127.0.0.1:9098] [--orders 20]

import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const { values: options } = parseArgs({
  options: {
    url: { type: 'string', default: 'http://127.0.0.1:7070' },
    payments: { type: 'string', default: 'http://127.0.0.1:9098' },
    orders: { type: 'string', default: '20' },
  },
})
const LIMIT = 60_000

async function call(action, input, key) {
  const headers = { 'content-type': 'application/json', ...(key && { 'idempotency-key': key }) }
  const response = await fetch(`${options.url}/plugins/orders/invoke/orders.${action}`, { method: 'POST', headers, body: JSON.stringify(input) })
  const body = await response.json()
  if (!response.ok) throw new Error(`${action}: ${body.error}: ${body.detail}`)
  return body.data
}

const orders = []
await call('stock-product', { sku: 'pay-1', name: 'A cup', price_cents: 1250, quantity: 1000 }, 'pay-stock')
for (let n = 1; n <= Number(options.orders); n += 1) {
  const customer = n % 10 === 0 ? 'broke' : `customer ${n}`
  const order = { order_number: `pay-${n}`, customer, lines: [{ sku: 'pay-1', quantity: n }] }
  const { order_id } = await call('create-order', order, `pay-order-${n}`)
  // Two callers, each with a key of its own: still one workflow.
  const [one, two] = await Promise.all(['a', 'b'].map(who => call('start-payment', { order_id }, `pay-start-${n}-${who}`)))
  if (one.workflow_id !== two.workflow_id) throw new Error('two workflows for one order')
  orders.push({ order_id, customer, wanted: customer === 'broke' ? 'cancelled' : 'paid' })
}
for (const end = Date.now() + LIMIT; ; await pause(100)) {
  const found = await Promise.all(orders.map(({ order_id }) => call('get-order', { order_id })))
  const open = found.filter((order, index) => order.status !== orders[index].wanted)
  if (open.length === 0) break
  if (Date.now() > end) throw new Error(`${open.length} orders are not as they should be: ${JSON.stringify(open[0])}`)
}
const charges = (await (await fetch(`${options.payments}/charges`)).json()).filter(charge => charge.reference.startsWith('pay-'))
const asked = charges.reduce((sum, charge) => sum + charge.asked, 0)
const references = new Set(charges.map(charge => charge.reference))
if (charges.length !== orders.length || references.size !== orders.length) throw new Error(`${charges.length} charges for ${orders.length} orders`)
console.log(`${orders.length} orders, ${charges.length} charges; the service was asked ${asked} times`)
