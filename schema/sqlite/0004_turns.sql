-- Tenants have their deliveries in turns: the next tenant is found without reading through the line of the one before.
CREATE INDEX _oncehost_deliveries_tenants ON _oncehost_deliveries (subscription, tenant, due_at, id) WHERE state = 'waiting';
-- Steps that only wait for their time, however many others there is no room for at the moment.
CREATE INDEX _oncehost_steps_timers ON _oncehost_steps (due) WHERE state = 'waiting' AND due IS NOT NULL;
