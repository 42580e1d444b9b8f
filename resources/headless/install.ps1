<#
.SYNOPSIS
  Installs Covey without a window, as a task that starts with Windows, or takes it away again.
.EXAMPLE
  .\install.ps1 controller -Lend
  $join | .\install.ps1 worker          # the join string comes on standard input
  .\install.ps1 uninstall -Purge        # -Purge: its data too
.NOTES
  As administrator the task starts with the machine and runs as a service account; otherwise it starts with the
  session of this user.
#>
param(
  [Parameter(Mandatory = $true, Position = 0)][ValidateSet('controller', 'worker', 'uninstall')][string]$Action,
  [switch]$Lend,
  [switch]$Purge,
  [Parameter(ValueFromPipeline = $true)][string]$JoinString
)
$ErrorActionPreference = 'Stop'
$name = 'Covey'
$identity = [Security.Principal.WindowsPrincipal][Security.Principal.WindowsIdentity]::GetCurrent()
$administrator = $identity.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)
if ($administrator) {
  $program = Join-Path $env:ProgramFiles 'Covey Headless'
  $data = Join-Path $env:ProgramData 'Covey'
} else {
  $program = Join-Path $env:LOCALAPPDATA 'Programs\Covey Headless'
  $data = Join-Path $env:APPDATA 'Covey'
}

function Stop-Covey {
  $task = Get-ScheduledTask -TaskName $name -ErrorAction SilentlyContinue
  if (-not $task) { return }
  Stop-ScheduledTask -TaskName $name -ErrorAction SilentlyContinue
  Unregister-ScheduledTask -TaskName $name -Confirm:$false
  # The task's end is not the end of its programs: those that run from our folder are ours.
  Get-CimInstance Win32_Process |
    Where-Object { $_.ExecutablePath -and $_.ExecutablePath.StartsWith($program, 'OrdinalIgnoreCase') } |
    ForEach-Object { Stop-Process -Id $_.ProcessId -Force -ErrorAction SilentlyContinue }
}

if ($Action -eq 'uninstall') {
  Stop-Covey
  if ($administrator) { Remove-NetFirewallRule -DisplayName $name -ErrorAction SilentlyContinue }
  Remove-Item $program -Recurse -Force -ErrorAction SilentlyContinue
  if ($Purge) {
    Remove-Item $data -Recurse -Force -ErrorAction SilentlyContinue
    Write-Host 'Covey is removed, with its data.'
  } else {
    Write-Host "Covey is removed. What it knew and its models are still in $data."
  }
  exit 0
}

$node = Join-Path $PSScriptRoot 'bin\node.exe'
if (-not (Test-Path $node)) { throw "Run this from the unpacked archive: $node is missing." }
Stop-Covey
if ($PSScriptRoot -ne $program) {
  Remove-Item $program -Recurse -Force -ErrorAction SilentlyContinue
  New-Item $program -ItemType Directory -Force | Out-Null
  Copy-Item (Join-Path $PSScriptRoot '*') $program -Recurse
}
New-Item $data -ItemType Directory -Force | Out-Null
# The data holds keys: for its owner and the system alone.
$owner = if ($administrator) { 'NT AUTHORITY\LOCAL SERVICE' } else { "$env:USERDOMAIN\$env:USERNAME" }
& icacls $data /inheritance:r /grant:r 'SYSTEM:(OI)(CI)F' 'BUILTIN\Administrators:(OI)(CI)F' "${owner}:(OI)(CI)F" | Out-Null

$node = Join-Path $program 'bin\node.exe'
$entry = Join-Path $program 'dist\covey.js'
if ($Action -eq 'worker' -and $JoinString) {
  # It works once, so the worker joins here, before the task starts. It stands in no argument list.
  $ready = Join-Path $data 'ready.json'
  $start = New-Object Diagnostics.ProcessStartInfo $node
  $start.Arguments = "`"$entry`" worker --data `"$data`" --join - --api none --no-discovery --ready-file `"$ready`""
  $start.UseShellExecute = $false
  $start.RedirectStandardInput = $true
  $joining = [Diagnostics.Process]::Start($start)
  $joining.StandardInput.WriteLine($JoinString)
  for ($waited = 0; $waited -lt 60 -and -not (Test-Path $ready) -and -not $joining.HasExited; $waited++) { Start-Sleep 1 }
  $joined = Test-Path $ready
  if (-not $joining.HasExited) { & taskkill /PID $joining.Id /T /F | Out-Null }
  Remove-Item $ready -ErrorAction SilentlyContinue
  if (-not $joined) { throw 'This machine could not join.' }
  Write-Host 'Joined.'
}

$role = if ($Action -eq 'controller' -and $Lend) { 'controller --lend' } else { $Action }
$run = New-ScheduledTaskAction -Execute $node -Argument "`"$entry`" $role --data `"$data`"" -WorkingDirectory $program
$settings = New-ScheduledTaskSettingsSet -AllowStartIfOnBatteries -DontStopIfGoingOnBatteries -ExecutionTimeLimit 0 `
  -RestartCount 10 -RestartInterval (New-TimeSpan -Minutes 1)
if ($administrator) {
  New-NetFirewallRule -DisplayName $name -Direction Inbound -Action Allow -Program $node -Profile Private, Domain | Out-Null
  $account = New-ScheduledTaskPrincipal -UserId 'NT AUTHORITY\LOCAL SERVICE' -LogonType ServiceAccount
  $trigger = New-ScheduledTaskTrigger -AtStartup
} else {
  $account = New-ScheduledTaskPrincipal -UserId "$env:USERDOMAIN\$env:USERNAME" -LogonType Interactive
  $trigger = New-ScheduledTaskTrigger -AtLogOn -User "$env:USERDOMAIN\$env:USERNAME"
}
Register-ScheduledTask -TaskName $name -Action $run -Trigger $trigger -Principal $account -Settings $settings | Out-Null
Start-ScheduledTask -TaskName $name
Write-Host "The $Action is installed and runs. `"$program\bin\covey.cmd`" status tells how it is."
