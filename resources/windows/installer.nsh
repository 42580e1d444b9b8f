; Lets other machines of the covey reach this one, and takes that back. Without administrator rights Windows asks
; when the program first listens.
!macro customInstall
  nsExec::Exec 'netsh advfirewall firewall add rule name="Covey" dir=in action=allow program="$INSTDIR\Covey.exe" enable=yes profile=private,domain'
!macroend
!macro customUnInstall
  nsExec::Exec 'netsh advfirewall firewall delete rule name="Covey" program="$INSTDIR\Covey.exe"'
  DeleteRegValue HKCU "Software\Microsoft\Windows\CurrentVersion\Run" "org.covey.app"
!macroend
