import { Page } from '../../components/page.tsx';

export function OverviewPage() {
  return <Page title="Overview">{null}</Page>;
}
