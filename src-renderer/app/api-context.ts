import { createContext, use } from 'react';
import type { ApiClient } from '../api-client/api-client.ts';

export const ApiContext = createContext<ApiClient | null>(null);

export function useApi(): ApiClient {
  const api = use(ApiContext);
  if (api === null) throw new Error('useApi outside of ApiContext');
  return api;
}
