// The tables of schema.sql and the flows of flows/, for the type checker. The host does not read this file.
import '@oncehost/sdk/plugin'

declare module '@oncehost/sdk/plugin' {
  interface Tables {
    lane_change_event: {
      record: {
        id: string
        event_key: string
        crossed_at: string
        obj_id: string
        region_id: string
        camera_id: string | null
        from_lane: number | null
        to_lane: number | null
        speed_kmh: number | null
        status: string
        video_file_id: string | null
        createdAt: string
        updatedAt: string
      }
      insert: {
        id?: string
        event_key: string
        crossed_at: string | Date
        obj_id: string
        region_id: string
        camera_id?: string | null | undefined
        from_lane?: number | null | undefined
        to_lane?: number | null | undefined
        speed_kmh?: number | null | undefined
        status?: string
        video_file_id?: string | null
      }
    }
  }

  interface Flows {
    'lane-change-postprocess': { event_id: string; video_file_id: string }
  }
}
